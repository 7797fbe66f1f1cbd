-- In which months of 1999 do a class's sales in a store deviate from the yearly mean?
WITH monthly AS (
  SELECT
    i_category,
    i_class,
    i_brand,
    s_store_name,
    s_company_name,
    d_moy,
    sum(ss_sales_price) AS sales,
    avg(sum(ss_sales_price)) OVER (
      PARTITION BY i_category, i_brand, s_store_name, s_company_name
    ) AS mean
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN item ON i_item_sk = ss_item_sk
  JOIN store ON s_store_sk = ss_store_sk
  WHERE d_year = 1999
    AND (
      i_category IN ('Books', 'Electronics', 'Sports')
        AND i_class IN ('computers', 'stereo', 'football', 'fiction', 'history', 'golf', 'fishing')
      OR i_category IN ('Men', 'Jewelry', 'Women')
        AND i_class IN ('shirts', 'birdal', 'dresses', 'rings', 'pants', 'earings', 'fragrances')
    )
  GROUP BY i_category, i_class, i_brand, s_store_name, s_company_name, d_moy
)
SELECT i_category, i_class, i_brand, s_store_name, s_company_name, d_moy, sales, mean
FROM monthly
WHERE mean > 0 AND abs(sales - mean) > 0.1 * mean
ORDER BY
  sales - mean, s_store_name, s_company_name, i_category, i_class, i_brand, d_moy
LIMIT 100
