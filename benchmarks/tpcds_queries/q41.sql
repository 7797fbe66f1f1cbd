-- Which products are of manufacturers that offer some combinations of category, size and unit?
SELECT DISTINCT i_product_name
FROM item
WHERE i_manufact_id BETWEEN 1 AND 700
  AND EXISTS (
    SELECT 1
    FROM item AS offered
    WHERE offered.i_manufact = item.i_manufact
      AND (
        (offered.i_category = 'Women' AND offered.i_size IN ('medium', 'extra large', 'petite'))
        OR (offered.i_category = 'Men' AND offered.i_size IN ('small', 'large', 'N/A'))
        OR (offered.i_category = 'Shoes' AND offered.i_units IN ('Ounce', 'Oz', 'Box', 'Case'))
        OR (offered.i_category = 'Children' AND offered.i_color < 'm')
      )
  )
ORDER BY i_product_name
LIMIT 100
