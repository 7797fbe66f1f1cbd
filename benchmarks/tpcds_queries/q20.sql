-- What is each item's share of the revenue of its class, by catalog in a month?
WITH revenue AS (
  SELECT
    i_item_id, i_item_desc, i_category, i_class, i_current_price,
    sum(cs_ext_sales_price) AS total
  FROM catalog_sales
  JOIN item ON i_item_sk = cs_item_sk AND i_category IN ('Jewelry', 'Music', 'Women')
  JOIN date_dim
    ON d_date_sk = cs_sold_date_sk AND d_date BETWEEN DATE'2001-01-12' AND DATE'2001-02-11'
  GROUP BY i_item_id, i_item_desc, i_category, i_class, i_current_price
)
SELECT *, total * 100 / nullif(sum(total) OVER (PARTITION BY i_class), 0) AS share
FROM revenue
ORDER BY i_category, i_class, i_item_id, i_item_desc, i_current_price, share
LIMIT 100
