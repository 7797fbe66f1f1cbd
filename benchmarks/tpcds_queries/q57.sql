-- In which months do a call center's sales of a brand deviate from the yearly mean?
WITH monthly AS (
  SELECT
    i_category,
    i_brand,
    cc_name,
    d_year,
    d_moy,
    sum(cs_sales_price) AS sales,
    avg(sum(cs_sales_price)) OVER (PARTITION BY i_category, i_brand, cc_name, d_year) AS mean,
    lag(sum(cs_sales_price)) OVER months AS previous,
    lead(sum(cs_sales_price)) OVER months AS following
  FROM catalog_sales
  JOIN item ON i_item_sk = cs_item_sk
  JOIN date_dim ON d_date_sk = cs_sold_date_sk
  JOIN call_center ON cc_call_center_sk = cs_call_center_sk
  WHERE d_year BETWEEN 1998 AND 2000
  GROUP BY i_category, i_brand, cc_name, d_year, d_moy
  WINDOW months AS (PARTITION BY i_category, i_brand, cc_name ORDER BY d_year, d_moy)
)
SELECT i_category, i_brand, cc_name, d_year, d_moy, mean, sales, previous, following
FROM monthly
WHERE d_year = 1999
  AND mean > 0
  AND abs(sales - mean) > 0.1 * mean
  AND previous IS NOT NULL
  AND following IS NOT NULL
ORDER BY sales - mean, i_category, i_brand, cc_name, d_moy
LIMIT 100
